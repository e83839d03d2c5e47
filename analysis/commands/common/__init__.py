"""What several commands share: options that mean the same everywhere (`options`), tables of answers (`answers`), pictures (`plots`)."""
