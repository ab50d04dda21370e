/// The planes of a JPEG: luma, and chroma at full or half resolution (ITU-T T.81, annex A.1.1).
enum ChromaSampling: Sendable, Hashable {
    /// Luma alone.
    case gray
    case s444, s422, s420

    /// Luma samples for each chroma sample, in a row.
    var horizontal: Int { self == .s422 || self == .s420 ? 2 : 1 }
    /// Luma samples for each chroma sample, in a column.
    var vertical: Int { self == .s420 ? 2 : 1 }
    var planes: Int { self == .gray ? 1 : 3 }
    /// Samples for each pixel, summed over all planes.
    var samples: Double { self == .gray ? 1 : 1 + 2 / Double(horizontal * vertical) }
}
