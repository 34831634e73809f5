from made_run import made_run, run_folder

__all__ = ["made_run", "run_folder"]
