"""What the processes of a site tell of themselves: that a worker lives (`heartbeat`), what upkeep was done (`upkeep`);
how they ask a worker (`asking`); and what each keeps at hand: values (`remembered`) and statements (`statements`).
"""
