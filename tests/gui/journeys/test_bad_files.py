"""Files that fail: code of a folder that no one trusts yet, and run files that are no TOML."""

from pathlib import Path

from support.gui.desktop import Desktop

LONG = 90.0
"""Seconds for what imports torch."""


def test_code_of_a_strange_folder_runs_once_it_is_trusted(
    screen: Desktop, tmp_path: Path, pictures: Path
) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "mine.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (tmp_path / "run.toml").write_text('[run]\nrecipe = "mine.py"\n[training]\nsteps = 4\nmicrobatch = 8\n')
    with screen.window(tmp_path, "run.toml") as window:
        window.wait_until(
            lambda: [seen for seen in window.look() if f"{tmp_path} is not trusted yet" in seen.text],
            "the preview to say that it is not trusted",
            60,
        )
        window.settle()
        window.wait("global batch 8 ")
        for tab in ("Data", "Memory", "Parameters", "Commands", "Placement"):
            window.click(tab, "Tab")
        screen.screenshot(pictures / "untrusted.png")
        window.key("ctrl+Return")
        window.wait("Trust this folder?")
        screen.screenshot(pictures / "asked.png")
        window.key("Escape")
        window.wait_until(lambda: not window.look("Trust this folder?"), "the question to be gone")
        assert not ran.exists()
        window.click("Trust …", "QPushButton")
        window.wait("Trust this folder?")
        assert not ran.exists()
        window.click("Trust", "QPushButton")
        window.wait_until(ran.exists, "the code to be traced", LONG)
        window.assert_flowed("a folder that is not trusted")
        assert window.said == ""


def test_files_that_are_no_toml_are_shown_with_what_is_wrong(
    screen: Desktop, tmp_path: Path, pictures: Path
) -> None:
    (tmp_path / "run.toml").write_text("# mine\n[run]\nthis is no TOML\n")
    (tmp_path / "long.toml").write_bytes(b'name = "f\xfc" # of another code page\n' * 15_000)
    with screen.window(tmp_path, "run.toml") as window:
        window.wait("1 problem")
        row = window.wait_until(lambda: window.look(kind="Row"), "the problem")[0]
        assert "this is not valid TOML" in row.text
        screen.screenshot(pictures / "form.png")
        window.settle()
        row = window.look(kind="Row")[0]  # what stands above it may have come meanwhile
        screen.do("mousemove", *map(str, row.centre), "click", "1")
        window.wait("", "TomlEditor")
        screen.screenshot(pictures / "text.png")
        window.key("ctrl+o")
        window.wait_until(
            lambda: (has := window.focus()) is not None and has.type == "QLineEdit", "the dialog's field"
        )
        window.type("long.toml")

        def is_taken() -> bool:
            is_open = bool(window.look("Open a run file or a script"))
            if is_open:  # a press too many would go into the text
                window.key("Return")  # the first takes what is offered below the field
            return not is_open

        window.wait_until(is_taken, "the dialog to be gone")
        screen.screenshot(pictures / "long.png")
        window.wait("Only the readable part is shown: line 1 is not UTF-8")
        screen.screenshot(pictures / "long.png")
        window.assert_flowed("files that are no TOML")
        assert window.said == ""
