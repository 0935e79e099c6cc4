"""The rules of the house, checked on the source itself."""
