/* The functions of the second file of `files.c`. */
void bleaf(int n) {
    last();
    work += n;
}
void bmid(int n) {
    bleaf(n);
    aleaf(n);
}
