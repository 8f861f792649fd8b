"""The process core: terminals, captured pipes, cleaned logs. It knows no verb."""
