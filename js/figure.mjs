// The plain hosted figure: nothing beyond the hosting layer.
export default hostWidget();
