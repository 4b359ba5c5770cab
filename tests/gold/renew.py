"""Write the gold files of views anew: `python tests/gold/renew.py`. The difference says what changed for users."""

from shown import GOLD, texts

for old in GOLD.iterdir():
    old.unlink()
for name, made in texts().items():
    (GOLD / name).write_text(made(), encoding="utf-8")
