"""Icons, samples and translations shipped with the program."""
