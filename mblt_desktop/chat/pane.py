"""The chat pane: conversations on the left, the transcript and the composer, the inspector on the right."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QTimer, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from mblt_desktop.chat.attachments import IMAGES, TEXTS, AttachmentLoader, as_block
from mblt_desktop.chat.composer import Composer
from mblt_desktop.chat.exporting import Exporter
from mblt_desktop.chat.header import ChatHeader
from mblt_desktop.chat.history import HistoryPanel
from mblt_desktop.chat.inspector import Inspector
from mblt_desktop.chat.measuring import Place, PromptMeter
from mblt_desktop.chat.models import ChatModels
from mblt_desktop.chat.page import ConversationPage
from mblt_desktop.chat.renaming import ask_title
from mblt_desktop.chat.session import ChatSession
from mblt_desktop.chat.welcome import Welcome
from mblt_desktop.context import AppContext
from mblt_desktop.exporting import file_name
from mblt_desktop.store.records import Attachment, Conversation, Message
from mblt_desktop.widgets import Page
from runtime.errors import RequestError, to_info

DRAFT_DELAY_MS = 400
NARROW = 1100
"""Pixels below which the inspector gives way."""
_NO_IMAGES = RequestError(
    "The loaded model reads text only, so the picture was not attached.",
    remedy="Load an image model in Models, or ask about the picture in the Image pane.",
    unharmed="Your message is unharmed.",
).info


class ChatPane(QWidget):
    """Owns which conversation is open; everything else has an owner of its own."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._store = context.store.conversations
        self.models = ChatModels(context, self)
        self.session = ChatSession(context, self)
        self.history = HistoryPanel(context, self.session)
        self.composer = Composer()
        self.conversation_page = ConversationPage(context, self.session, self.models)
        self.transcript = self.conversation_page.transcript
        self.welcome = Welcome(self.models)
        self.inspector = Inspector(context, self.session.candidates_of)
        self.page = Page("New chat")
        self.header = ChatHeader(self.page.header, self.models)
        self._loader = AttachmentLoader(context.paths.media, self)
        self._exporter = Exporter(self)
        self._body = QStackedWidget()
        self._drafts = QTimer(self, singleShot=True, interval=DRAFT_DELAY_MS)
        self._editing: Message | None = None
        self._waiting: dict[str, tuple[Attachment, ...]] = {}
        """Pictures that go with a conversation's draft."""
        self.meter = PromptMeter(context, self.composer, self.models, self._place)
        self._narrow = False
        self._had_inspector = True
        self.conversation: Conversation = self._store.create()
        self._build()
        self._connect()
        self._show(self.conversation)

    def _build(self) -> None:
        self._body.addWidget(self.welcome)
        self._body.addWidget(self.conversation_page)
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._body, 1)
        foot = QHBoxLayout()
        # In line with the transcript, whose scroll bar stands at the right.
        bar = self.transcript.verticalScrollBar().sizeHint().width()
        foot.setContentsMargins(24, 0, 24 + bar, 20)
        foot.addStretch(1)
        self.composer.setMaximumWidth(760)
        foot.addWidget(self.composer, 100)
        foot.addStretch(1)
        column.addLayout(foot)
        self.page.set_body(middle)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.history)
        row.addWidget(self.page, 1)
        row.addWidget(self.inspector)

    def _connect(self) -> None:
        self.history.opened.connect(self.open)
        self.history.new_requested.connect(self.new_chat)
        self.history.list.rename_requested.connect(self.rename)
        self.history.list.pin_requested.connect(self.toggle_pin)
        self.history.list.delete_requested.connect(self.delete)
        self.composer.submitted.connect(self._on_submitted)
        self.composer.stop_requested.connect(self.stop)
        self.composer.attach_requested.connect(self._on_attach_requested)
        self.composer.files_added.connect(self.open_files)
        self.composer.changed.connect(self._on_draft_changed)
        self.composer.edit_cancelled.connect(self._on_edit_cancelled)
        self.inspector.changed.connect(self.meter.update)
        self.meter.policy_changed.connect(self._refresh_models)
        self._drafts.timeout.connect(self._save_draft)
        self.welcome.sample_chosen.connect(self._on_sample_chosen)
        self.transcript.typed.connect(self._on_typed)
        self.session.message_added.connect(self._on_message_added)
        self.session.running_changed.connect(self._refresh_running)
        self.session.running_changed.connect(self.meter.update)
        self.models.changed.connect(self._refresh_models)
        self.models.failed.connect(self._context.show_error)
        self.conversation_page.edit_requested.connect(self._on_edit_requested)
        self.conversation_page.answer_selected.connect(self.inspector.answer.show_message)
        self._store.changed.connect(self._refresh_title)
        self._loader.image_ready.connect(self._on_image_ready)
        self._loader.text_ready.connect(self._on_text_ready)
        self._loader.refused.connect(self._context.show_error)
        self.header.rename_requested.connect(self._on_header_rename)
        self.header.pin_requested.connect(self._on_header_pin)
        self.header.delete_requested.connect(self._on_header_delete)
        self.header.export_requested.connect(self._on_export_requested)
        self._exporter.saved.connect(self._on_exported)
        self._exporter.failed.connect(self._context.show_error)
        self.header.inspector_toggled.connect(self.inspector.setVisible)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the text needs the inspector's room; it comes back with the room."""
        super().resizeEvent(event)
        narrow = self.width() < NARROW
        if narrow != self._narrow:
            self._narrow = narrow
            if narrow:
                self._had_inspector = self.header.panel.isChecked()
            self.header.panel.setChecked(self._had_inspector and not narrow)

    # -- what the window calls --------------------------------------------------------------------

    def accepts_drop(self, paths: list[Path]) -> bool:
        """Whether any of the files can go with a message."""
        return any(path.suffix.lower() in IMAGES | TEXTS for path in paths)

    @Slot(list)
    def open_files(self, paths: list[Path]) -> None:
        """Attach pictures, and write texts into the message."""
        for path in paths:
            if path.suffix.lower() in IMAGES and not self._reads_images:
                self._context.show_error(_NO_IMAGES)
            else:
                self._loader.load(path)

    def activated(self) -> None:
        """The pane came to the front."""
        self.composer.edit.setFocus()

    def start(self) -> None:
        """The window is painted: look for models and load the last one."""
        self.models.refresh()

    def save(self) -> None:
        """Save what is typed but not sent."""
        self.inspector.save()
        self._save_draft()

    def close_down(self) -> None:
        """The window closes: save, and wait for files that are being read."""
        self.save()
        self._loader.close()
        self._exporter.close()

    # -- conversations ----------------------------------------------------------------------------

    @Slot()
    def new_chat(self) -> None:
        """Open an empty conversation, keeping the one that is open."""
        self._save_draft()
        self._show(self._store.create())
        self.composer.edit.setFocus()

    @Slot(str)
    def open(self, conversation_id: str) -> None:
        """Open a conversation."""
        conversation = self._store.get(conversation_id)
        if conversation is None or conversation is self.conversation:
            return
        self.save()
        self._show(conversation)

    @Slot(str)
    def rename(self, conversation_id: str) -> None:
        """Ask for a title of the user's own."""
        conversation = self._store.get(conversation_id)
        title = "" if conversation is None else ask_title(self, conversation.title)
        if title:
            self._store.update(conversation_id, title=title, titled=True)

    @Slot(str)
    def toggle_pin(self, conversation_id: str) -> None:
        """Keep a conversation at the top, or no longer."""
        conversation = self._store.get(conversation_id)
        if conversation is not None:
            self._store.update(conversation_id, pinned=not conversation.pinned)

    @Slot(str)
    def delete(self, conversation_id: str) -> None:
        """Delete a conversation, with a way back."""
        conversation = self._store.get(conversation_id)
        if conversation is None:
            return
        self.save()
        self.session.forget(conversation_id)
        self._store.delete(conversation_id)
        if conversation is self.conversation:
            self._show(self._store.create())
        self._context.toast(f"Deleted “{conversation.title}”", lambda: self._undelete(conversation_id))

    def _undelete(self, conversation_id: str) -> None:
        self._store.restore(conversation_id)
        self.open(conversation_id)

    def _show(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._end_editing()
        try:
            # First the place, then the text: it is laid out for the width it will have.
            self._refresh_body()
            self.conversation_page.show_conversation(conversation)
        except Exception as error:  # noqa: BLE001 - a damaged conversation must not take the others with it
            self._context.show_error(to_info(error))
        self.composer.blockSignals(True)
        self.composer.set_text(conversation.draft)
        self.composer.set_attachments(self._waiting.get(conversation.id, ()))
        self.composer.blockSignals(False)
        self.inspector.show_conversation(conversation)
        self.inspector.answer.show_message(self.conversation_page.last_answer)
        self.history.set_current(conversation.id)
        self._refresh_title()
        self._refresh_running()
        self.meter.update()

    # -- asking -----------------------------------------------------------------------------------

    @Slot(str, tuple)
    def _on_submitted(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        model_id = self.models.ready()
        if model_id is None:
            return
        editing = self._editing
        self._end_editing()
        self.composer.clear()
        self._save_draft()
        self.inspector.save()
        title = self.models.title(model_id)
        if editing is not None:
            self.session.edit(editing, text, model_id, title)
        else:
            self.session.send(self.conversation, text, model_id, title, attachments)
        self.transcript.scroll_to_end()

    @Slot(str)
    def _on_sample_chosen(self, text: str) -> None:
        self._on_submitted(text, ())
        # The button that had the focus is gone.
        self.composer.edit.setFocus()

    @Slot(str)
    def _on_typed(self, text: str) -> None:
        """Whoever types while reading means the message."""
        self.composer.edit.setFocus()
        self.composer.insert(text)

    @Slot()
    def stop(self) -> None:
        """Stop the answer of the open conversation."""
        self.session.stop(self.conversation.id)

    @Slot(object)
    def _on_edit_requested(self, message: Message) -> None:
        """A turn goes back into the composer; sending it makes a branch."""
        if self.session.run_of(message.conversation_id) is not None:
            self._context.toast("Stop the running answer first")
            return
        self._save_draft()
        self._editing = message
        self.composer.set_editing(True)
        self.composer.set_text(message.text)
        self.composer.edit.setFocus()

    @Slot()
    def _on_edit_cancelled(self) -> None:
        self._end_editing()
        self.composer.set_text(self.conversation.draft)

    def _end_editing(self) -> None:
        self._editing = None
        self.composer.set_editing(False)

    @Slot(object)
    def _on_message_added(self, _message: object) -> None:
        self._refresh_body()
        self._refresh_title()

    @Slot()
    def _on_draft_changed(self) -> None:
        self._drafts.start()

    @Slot()
    def _save_draft(self) -> None:
        """What is typed belongs to the conversation; an earlier turn being edited is not a draft."""
        self._drafts.stop()
        text = self.composer.text
        if self._editing is not None:
            return
        self._waiting[self.conversation.id] = self.composer.attachments
        if text != self.conversation.draft:
            self._store.update(self.conversation.id, draft=text)

    # -- what is shown around ---------------------------------------------------------------------

    def _refresh_body(self) -> None:
        empty = not len(self._store.tree(self.conversation.id))
        self._body.setCurrentWidget(self.welcome if empty else self.conversation_page)

    @Slot()
    def _refresh_title(self) -> None:
        conversation = self.conversation
        saved = bool(self.conversation_page.branch)
        self.header.set_conversation(conversation.title, pinned=conversation.pinned, saved=saved)

    @Slot()
    def _refresh_running(self) -> None:
        run = self.session.run_of(self.conversation.id)
        self.composer.set_running(run is not None, stopping=run is not None and run.stopping)

    @Slot()
    def _refresh_models(self) -> None:
        models = self.models
        self.composer.set_blocked("" if models.installed else "No model is installed yet")
        self.composer.set_reads_images(reads=self._reads_images)
        self.inspector.show_model(models.loaded)
        self.meter.update()

    def _place(self) -> Place:
        """Where the message in the composer will stand."""
        conversation, editing = self.conversation, self._editing
        before = self.conversation_page.branch
        if editing is not None:
            before = before[: next((n for n, one in enumerate(before) if one.id == editing.id), 0)]
        return Place(conversation, before, self.session.run_of(conversation.id) is not None)

    # -- the header's menus -----------------------------------------------------------------------

    @Slot()
    def _on_header_rename(self) -> None:
        self.rename(self.conversation.id)

    @Slot()
    def _on_header_pin(self) -> None:
        self.toggle_pin(self.conversation.id)

    @Slot()
    def _on_header_delete(self) -> None:
        self.delete(self.conversation.id)

    @Slot(str)
    def _on_export_requested(self, form: str) -> None:
        suffix = ".json" if form == "json" else ".md"
        proposed = file_name(self.conversation.title, suffix, "chat")
        name, _ = QFileDialog.getSaveFileName(self, "Export chat", proposed, f"*{suffix}")
        if name:
            tree = self._store.tree(self.conversation.id)
            self._exporter.export(self.conversation, tree, Path(name))

    @Slot(str)
    def _on_exported(self, path: str) -> None:
        self._context.toast(f"Saved {path}")

    # -- files ------------------------------------------------------------------------------------

    @property
    def _reads_images(self) -> bool:
        return self.models.loaded is not None and self.models.loaded.kind == "image"

    @Slot()
    def _on_attach_requested(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(self, "Attach files")
        self.open_files([Path(name) for name in names])

    @Slot(object)
    def _on_image_ready(self, attachment: Attachment) -> None:
        self.composer.add_attachment(attachment)

    @Slot(str, str)
    def _on_text_ready(self, name: str, text: str) -> None:
        self.composer.insert(as_block(name, text))
