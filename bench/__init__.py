"""How close fedbed is to what the hardware and bare MQTT allow, and to its peer."""
