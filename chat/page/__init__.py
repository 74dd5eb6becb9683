"""The pages that readers see: chat page, cited passages, the widget. Nothing here decides on an answer."""
