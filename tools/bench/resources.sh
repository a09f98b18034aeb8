resources_stop() { :; }
resources() { :; }
