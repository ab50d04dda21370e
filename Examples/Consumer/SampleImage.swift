import Foundation

/// The image to load.
enum SampleImage {
    /// 64 x 48 pixels.
    static let png = Data(base64Encoded: base64, options: .ignoreUnknownCharacters) ?? Data()

    private static let base64 = """
        iVBORw0KGgoAAAANSUhEUgAAAEAAAAAwCAIAAAAuKetIAAAAWklEQVR42u3XsQ0AIAgEQEZzFEdxc10AKhqNl1B+wVWfjxgr
        vT0jvevyAAAAAACt/DOPFnkAAAAAgB5AEwMAAADYA5oYAAAAwB7QxAAAAAD2gCYGAAAA+A5wAA06urWgRJfuAAAAAElFTkSu
        QmCC
        """
}
