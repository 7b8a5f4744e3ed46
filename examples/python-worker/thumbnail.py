"""Makes a grey image smaller. The image comes and goes as plain PGM: "P2 width height white", and then its pixels."""

from punctual import Fail, handler


def read(image):
    """The width of an image, its height, its white, and its pixels."""
    try:
        kind, *numbers = image.split()
        width, height, white, *pixels = map(int, numbers)
    except ValueError as error:
        # The next attempt would get the same image.
        raise Fail("this is no plain PGM image") from error
    if kind != "P2" or len(pixels) != width * height:
        raise Fail("this is no plain PGM image")
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
