/// The built-in decoders.
public enum ImageDecoders {}
