"""The widget: a script on another site, a frame from here, and what the frame asks for."""
