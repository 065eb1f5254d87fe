"""An answer is shown as rows, pictures, pages and files, always with the range of each number and its receipt."""
