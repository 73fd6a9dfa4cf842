"""HTTP servers of ours: who may send a request, event streams that can be resumed, and uvicorn."""
