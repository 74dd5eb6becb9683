"""The pages that readers see: chat page, shared and cited passages, the widget. Nothing here decides on an answer."""
