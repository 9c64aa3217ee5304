"""Models and trainings of Hugging Face programs, from their config files alone. Pure."""
