"""In the browser: native controls change the values, the explorer draws again, the address bar keeps the state. Runs in Brython alone."""

# mypy: ignore-errors

import sys

from browser import document, window

from analysis.artifact.explorers import explorer
from analysis.artifact.explorers.controls import Slider, decoded, defaults, from_text, to_text

started = {}


class Shown:
    """One explorer on the page."""

    def __init__(self, box):
        self.box, self.name = box, box.attrs["data-explorer"]
        self.model = explorer(self.name)
        self.values = defaults(self.model.CONTROLS)
        self.canvas, self.said = box.select_one(".canvas"), box.select_one(".said")
        self.width, self.drawn, self.before, self.moved = 0, "", "", ""
        for control in self.model.CONTROLS:
            self.field(control).bind("input", self.changed)
        for area in box.select("textarea"):
            area.bind("dragover", lambda event: event.preventDefault())
            area.bind("drop", self.take)
        for chosen in box.select("input[type=file]"):
            chosen.bind("change", self.take)
        box.select_one("button.reset").bind("click", self.reset)
        self.timer = None
        for button in box.select("button.play"):
            button.bind("click", self.play)
        box.classList.add("live")

    def field(self, control):
        """The input of a control."""
        return document[f"{self.name}-{control.name}"]

    def take(self, event):
        """The text of a file that was dropped or chosen."""
        event.preventDefault()
        files = event.dataTransfer.files if event.type == "drop" else event.target.files
        if files.length:
            files[0].text().then(self.put)

    def put(self, text):
        """A text into its field."""
        self.box.select_one("textarea").value = text
        self.changed(None)

    def changed(self, event):
        """Take the inputs' values, draw, and write them into the address."""
        moved = event.target.id if event else ""
        if moved != self.moved:  # what was answered before this control moved stays as a ghost
            self.before, self.moved = self.drawn, moved
        for control in self.model.CONTROLS:
            field = self.field(control)
            self.values[control.name] = control.values[int(field.value)] if isinstance(control, Slider) else field.value
        self.show()
        window.history.replaceState("", "", "#" + self.name + ":" + to_text(self.model.CONTROLS, self.values))

    def play(self, event):
        """Move the slider that PLAYS names, value by value, from where it is or from its beginning; a second click stops it."""
        if self.timer is not None:
            return self.stop()
        slider = next(control for control in self.model.CONTROLS if control.name == self.model.PLAYS)
        if self.values[slider.name] == slider.values[-1]:
            self.field(slider).value = "0"
        self.box.select_one("button.play").text = "Stop"
        self.timer = window.setInterval(lambda: self.forward(slider), 250)

    def forward(self, slider):
        """One value further, or the end."""
        place = int(self.field(slider).value) + 1
        if place >= len(slider.values):
            return self.stop()
        self.field(slider).value = str(place)
        self.changed(None)

    def stop(self):
        """The slider stays where it is."""
        window.clearInterval(self.timer)
        self.timer = None
        self.box.select_one("button.play").text = "Play"

    def reset(self, event):
        """Back to the defaults."""
        self.before = self.moved = ""
        self.set(defaults(self.model.CONTROLS))
        window.history.replaceState("", "", "#" + self.name)

    def set(self, values):
        """Take values, move the inputs there, and draw."""
        self.values = dict(values)
        for control in self.model.CONTROLS:
            value = self.values[control.name]
            self.field(control).value = str(list(control.values).index(value)) if isinstance(control, Slider) else value
        self.show()

    def show(self):
        """Draw the figure and its sentence at the width that there is."""
        for control in self.model.CONTROLS:
            if isinstance(control, Slider):
                shown = control.text(self.values[control.name])
                self.field(control).attrs["aria-valuetext"] = shown
                self.box.select_one(f"output[for='{self.name}-{control.name}']").text = shown
        self.width = max(280, min(760, self.canvas.clientWidth))
        self.drawn = self.model.draw(self.values, self.width)
        stays = 'class="stays"' in self.before and self.before != self.drawn
        self.canvas.html = self.drawn + (f'<div class="ghost" aria-hidden="true">{self.before}</div>' if stays else "")
        self.said.text = self.model.tell(self.values)


def answers(name, points):
    """For tests: the answers at many points, as JSON."""
    import json

    model = explorer(name)
    return json.dumps([model.answer(values) for values in json.loads(points)])


class Said:
    """Standard output of a live cell."""

    def __init__(self):
        self.parts = []

    def write(self, text):
        """Keep what is printed."""
        self.parts.append(str(text))

    def flush(self):
        """Nothing is held back."""


def run_cell(code):
    """Run a live cell's code; what it prints, with the error that ended it, if one did."""
    before, said = sys.stdout, Said()
    sys.stdout = said
    try:
        exec(code, {"__name__": "live"})
    except BaseException as error:
        said.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout = before
    return "".join(said.parts).rstrip("\n")


def resized(event):
    """Draw again what has become wider or narrower."""
    for shown in started.values():
        if abs(max(280, min(760, shown.canvas.clientWidth)) - shown.width) > 1:
            shown.before = ""
            shown.show()


def begin(box):
    """Bring an explorer to life, once; its model is loaded only now."""
    name = box.attrs["data-explorer"]
    if name not in started:
        started[name] = Shown(box)
        started[name].show()
    return started[name]


def seen(entries, observer):
    """Begin what has come near the view."""
    for entry in entries:
        if entry.isIntersecting:
            begin(document[entry.target.id])


def start():
    """Explorers live from when they are about to be seen; one that the address names takes its state from there."""
    watcher = window.IntersectionObserver.new(seen, {"rootMargin": "400px"})
    wanted, _, state = window.location.hash[1:].partition(":")
    for box in document.select("[data-explorer]"):
        if box.attrs["data-explorer"] == wanted:
            shown = begin(box)
            shown.set(from_text(shown.model.CONTROLS, decoded(state)))
            box.scrollIntoView()
        watcher.observe(box)
    window.addEventListener("resize", resized)
    window.explorer_answers = answers
    window.run_cell = run_cell
    window.explorers_ready = True


start()
