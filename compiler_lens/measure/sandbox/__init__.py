"""The user's program while we call it: whatever a call may change is put back."""
