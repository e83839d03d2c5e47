"""What several commands share: options that mean the same everywhere (`options`), pictures (`plots`), how far work is (`progress`)."""
