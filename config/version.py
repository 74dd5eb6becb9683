"""The version of the product, for whoever shows it, packs it or keeps a database of it. The one place where it stands."""

VERSION = "0.3.0"
