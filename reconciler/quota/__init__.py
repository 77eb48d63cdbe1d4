"""What a quota is: values and laws. Pure: no I/O, no clock, no log, standard library only."""
