"""The MQTT broker: Mosquitto, configured, started and supervised."""
