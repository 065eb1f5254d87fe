"""Answers as rows, pictures, pages and files, always with the interval of each number and the receipt."""
