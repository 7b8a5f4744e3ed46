"""Shrinks a grey image. Input and output are plain PGM: "P2 width height white", followed by the pixels."""

from punctual import Fail, handler


def read(image):
    """Returns the width, the height, the value of white, and the pixels of an image."""
    try:
        kind, *numbers = image.split()
        width, height, white, *pixels = map(int, numbers)
    except ValueError as error:
        # The next attempt would get the same image.
        raise Fail("invalid image: expected plain PGM") from error
    if kind != "P2" or len(pixels) != width * height:
        raise Fail("invalid image: expected plain PGM")
    return width, height, white, pixels


@handler
def thumbnail(job):
    factor = job.payload.get("factor", 2)
    width, height, white, pixels = read(job.payload["image"])
    small = []
    for top in range(0, height - factor + 1, factor):
        for left in range(0, width - factor + 1, factor):
            square = [pixels[y * width + x] for y in range(top, top + factor) for x in range(left, left + factor)]
            small.append(sum(square) // len(square))
    print(f"{width} x {height} pixels became {width // factor} x {height // factor}")
    return " ".join(map(str, ["P2", width // factor, height // factor, white, *small]))
