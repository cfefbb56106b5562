"""Looking at what the compiler made: measuring it, viewing it, finding what is wrong with it."""
