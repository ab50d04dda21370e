/// Which engine makes renditions.
public enum RenderEngineChoice: String, Sendable, CaseIterable {
    /// Planes where it can, libvips for all else.
    case auto
    /// libvips for everything.
    case vips
    /// The one that works on a JPEG's planes, without ever making pixels of them (TurboJPEG, zimg, libwebp); what it cannot
    /// render is refused. For comparisons.
    case planes
}
