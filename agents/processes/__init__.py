"""What the processes of a site tell of themselves: that a worker lives (`heartbeat`), what upkeep was done (`upkeep`);
and how they ask a worker (`asking`).
"""
