"""The simulator: its engines against closed forms and a real vLLM, its guarantees, its bytes."""
