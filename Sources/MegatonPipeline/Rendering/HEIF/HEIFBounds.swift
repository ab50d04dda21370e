/// Limits on the header of a HEIF or AVIF file. libheif 1.15 copies the bytes of every item while it reads the header,
/// and looks through the list of all items for each of them: 20,000 items take it 36 s, and 20 items that share
/// 32 times the same megabyte take 3 GB.
enum HEIFBounds {
    /// Items of a file. An image of 200 megapixels from a phone has 768 tiles.
    static let items = 2048
    /// Extents of all items together.
    static let extents = 8192
    /// Boxes within `meta`, and beside it.
    static let boxes = 16_384
    /// Associations of items with properties, and items named by references.
    static let links = 65_536
    /// Bytes of `meta` without `idat`: libheif copies them one by one.
    static let meta = 16 << 20
    /// Bytes of `ftyp`.
    static let brands = 64 << 10
    /// Bytes of Exif, XMP and profiles: all of them are copied, and kept with the image.
    static let metadata = 16 << 20
    /// Items may share bytes: tiles of one color are one. Bytes that all items copy, as a multiple of the file's size.
    static let copies = 4
    /// Copies of so many bytes are allowed for a small file, too.
    static let leastCopies = 32 << 20
    /// The most that a byte may be inflated to (RFC 1951: 258 bytes for 2 bits).
    static let inflation = 1032
    /// Derived images from the primary one down to a coded one.
    static let depth = 8
    /// Images that are decoded for one image, each as often as it is used.
    static let decodings = 4096
    /// Pixels that the size of a coded image may differ from the size that its properties say, for each side. The
    /// largest block of HEVC has 64 pixels: a size may have been rounded up to whole blocks.
    static let sizeTolerance = 63
    /// Tiles that libheif decodes at a time.
    static let parallelTiles = 4
    /// Bytes that decoding may take for each byte of the decoded image.
    static let memoryFactor = 4
    /// Bytes that any image may take while it is decoded: a small canvas may have a tile of 512x512.
    static let leastMemory = 32 << 20
}
