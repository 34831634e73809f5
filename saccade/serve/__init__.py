"""A trained model behind a web page and a JSON API: `saccade serve RUN`. Needs `pip install 'saccade[serve]'`.

    upload ─▶ limits ─▶ picture ─▶ queue (bounded, one worker) ─▶ prediction ─▶ store (tiles, crops, for a while)

`create_app` in app.py has the routes; every file beside it is one of these steps.
"""

from saccade.serve.app import create_app
from saccade.serve.limits import Limits

__all__ = ["Limits", "create_app"]
