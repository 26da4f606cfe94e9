"""The face that the Lance ecosystem sees: request models in, response models out."""
