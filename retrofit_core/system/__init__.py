"""What every other package needs: values and their settings, files, devices, progress, helpful errors."""
