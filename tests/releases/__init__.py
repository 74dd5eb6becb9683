"""A small site of each release as it was when the release was made, which the suite upgrades to the newest and asks.

`VERSION/` holds the site's database on SQLite and on PostgreSQL (SQL, compressed), the files of its documents and the
hashes of the release's migrations, which are frozen from then on. `keep` makes the folder of the next release;
`kept_site` fills the site and says what it is asked, in every version.
"""
