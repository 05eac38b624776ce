"""What bisections take where builds cost what they compile again."""
