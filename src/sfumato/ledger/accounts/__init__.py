"""An account is charged before anything is read: by questions, by tabs, by periods, within limits of its own."""
