"""Pages and sitemaps of the web, fetched within bounds: addresses, one page, robots.txt, sitemaps. No ORM."""
