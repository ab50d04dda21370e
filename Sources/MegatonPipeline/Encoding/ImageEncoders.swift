/// The encoders that come with the pipeline.
public enum ImageEncoders {}
