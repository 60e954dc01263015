"""Moving pictures of spheres: gif, mp4 (with ffmpeg), or a page of HTML."""

from pathlib import Path

from carom.errors import RecordError

ENDINGS = (".gif", ".mp4", ".html")


def animate_spheres(sol, path, *, forces: bool = False, seconds: float = 8.0) -> None:
    """Write the records of a SpheresSolution as a moving picture of so many seconds."""
    import matplotlib.pyplot as plt
    from matplotlib.animation import FFMpegWriter, FuncAnimation

    path = Path(path)
    if path.suffix not in ENDINGS:
        raise RecordError(f"{str(path)!r}: a moving picture ends in {', '.join(ENDINGS)}")
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise RecordError(f"{str(path)!r}: mp4 needs ffmpeg; install it, or write a .gif")
    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")

    def drawn(k):
        axes.clear()
        sol.plot(axes, record=k, forces=forces)
        axes.set(xlim=bounds[0], ylim=bounds[1])

    sol.plot(axes, record=0)
    first = axes.get_xlim(), axes.get_ylim()
    sol.plot(axes, record=-1)
    last = axes.get_xlim(), axes.get_ylim()
    bounds = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(first, last, strict=True)]
    interval = 1000.0 * seconds / len(sol)
    moving = FuncAnimation(figure, drawn, frames=len(sol), interval=interval)
    try:
        if path.suffix == ".html":
            path.write_text(moving.to_jshtml(), encoding="utf-8")
        else:
            writer = "ffmpeg" if path.suffix == ".mp4" else "pillow"
            moving.save(path, writer=writer, dpi=80, fps=max(1, round(1000.0 / interval)))
    except OSError as problem:
        raise RecordError(f"cannot write {str(path)!r}: {problem}") from None
    finally:
        plt.close(figure)
