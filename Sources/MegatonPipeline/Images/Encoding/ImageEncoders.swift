/// The built-in encoders.
public enum ImageEncoders {}
