"""The router before real vLLM replicas on the CPU: ``./tools/test --real-vllm``."""
