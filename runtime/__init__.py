"""The engine room of MBLT Desktop: models, scheduling, speech, tracing and the simulated NPU.

Nothing here imports `mblt_desktop`, and only `runtime.lanes.thread` imports Qt.
"""
