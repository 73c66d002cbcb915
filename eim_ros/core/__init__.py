"""Basics that all other packages use: errors, settings, argument checks, files and processes."""
