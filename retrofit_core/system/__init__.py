"""What the machine offers and every room needs: values and their settings, files, devices, progress, errors that help."""
