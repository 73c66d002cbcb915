"""What every other package may use: errors, settings, argument checks, files, processes. It knows no robot."""
