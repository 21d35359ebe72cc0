"""Tables of card JSON 2.0: which tags there are and which attributes each one takes.

Source: the platform's pages on the 2.0 structure and its components. An attribute that is not listed is an error in
2.0 (in 1.0 it was ignored).
"""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_BYTES = 30 * 1024
MAX_ELEMENTS = 200
MAX_DEPTH = 5

HEADER_TEMPLATES = words(
    "blue wathet turquoise green yellow orange red carmine violet purple indigo grey default"
)
WIDTH_MODES = frozenset({"default", "compact", "fill"})
BUTTON_TYPES = words(
    "default primary danger text primary_text danger_text primary_filled danger_filled laser"
)
BUTTON_SIZES = frozenset({"tiny", "small", "medium", "large"})
INPUT_TYPES = frozenset({"text", "multiline_text", "password"})
DROPPED_TAGS = frozenset({"action", "note"})

CARD = frozenset({"schema", "config", "card_link", "header", "body"})
CONFIG = words(
    "streaming_mode streaming_config summary locales enable_forward update_multi width_mode "
    "use_custom_translation enable_forward_interaction style"
)
HEADER = words("title subtitle text_tag_list i18n_text_tag_list template icon padding")
TEXT = words("tag element_id content i18n_content text_size text_color text_align lines")

_COMMON = frozenset({"tag", "element_id", "margin"})
_LAYOUT = words("padding direction horizontal_spacing horizontal_align vertical_spacing vertical_align")
_FIELD = words("name required disabled disabled_tips placeholder width behaviors value confirm")

OPEN_URL = words("type default_url android_url ios_url pc_url")
BODY = _LAYOUT | {"elements"}

ATTRIBUTES: dict[str, frozenset[str]] = {
    "div": _COMMON | {"text", "fields", "icon", "width"},
    "markdown": _COMMON | words("content i18n_content text_align text_size icon"),
    "hr": _COMMON,
    "img": _COMMON
    | words(
        "img_key alt title corner_radius scale_type size transparent preview mode custom_width compact_width"
    ),
    "column_set": _COMMON | _LAYOUT | words("flex_mode background_style columns action behaviors"),
    "column": _COMMON | _LAYOUT | words("width weight background_style elements action behaviors"),
    "form": _COMMON | _LAYOUT | {"name", "elements"},
    "interactive_container": _COMMON
    | _LAYOUT
    | words(
        "width height background_style has_border border_color corner_radius behaviors hover_tips disabled "
        "disabled_tips confirm elements"
    ),
    "collapsible_panel": _COMMON | _LAYOUT | words("expanded background_color header border elements"),
    "button": _COMMON
    | words(
        "name type size width text icon hover_tips disabled disabled_tips confirm behaviors form_action_type "
        "action_type required value url multi_url"
    ),
    "input": _COMMON
    | _FIELD
    | words("default_value max_length input_type rows auto_resize max_rows show_icon label label_position"),
    "select_static": _COMMON | _FIELD | words("type options initial_index initial_option"),
}

# Real tags that this sandbox neither draws nor looks into: they are counted, and shown as `[tag]`.
OTHER_TAGS = words(
    "img_combination person person_list chart table audio overflow multi_select_static select_person "
    "multi_select_person date_picker picker_time picker_datetime select_img checker"
)
INTERACTIVE = words(
    "button input overflow select_static multi_select_static select_person multi_select_person date_picker "
    "picker_time picker_datetime select_img checker"
)
CONTAINERS = words("column_set form interactive_container collapsible_panel")
