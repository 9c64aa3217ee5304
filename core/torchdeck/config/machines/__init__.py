"""Tables of a run file about machines that Torchdeck does not contact: described ones, and a job of Slurm."""
