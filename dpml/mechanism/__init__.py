"""What algorithms release, as plain values: the noise that is drawn and the guarantee that is proven come from one."""
