"""Under the link: MQTT packets, and the client of paho."""
